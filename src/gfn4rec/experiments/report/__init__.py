"""Tables, plots and the report page; nothing here imports torch."""
