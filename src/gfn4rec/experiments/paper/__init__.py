"""The paper's tables, figures and claims, and this project's own studies."""
