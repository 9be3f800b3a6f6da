"""The whole comparison: what is measured (`cases`), how (`measure`), and what becomes of it (`results`, `targets`,
`tables`, `plot`)."""
