"""The live service: recommends slates, takes feedback, and learns from it, as processes around a durable store."""
