"""Raw files -> Interactions -> a prepared data set directory -> requests and slates as tensors."""
