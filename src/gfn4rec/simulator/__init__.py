"""The simulated user: a response model, item influence, an environment, and samplers that see its probabilities."""
