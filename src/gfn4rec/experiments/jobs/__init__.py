"""Jobs: one training and its measurement, the engines that run them, and where their results are kept."""
