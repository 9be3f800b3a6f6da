"""Nothing: `import acme` asks for a module of this name, and nothing of it is used here."""
