"""The whole comparison: the cases (`cases`), their measurement (`measure`), and the evaluation (`results`, `targets`,
`tables`, `plot`)."""
