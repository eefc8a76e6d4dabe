"""Language models behind an HTTP server that speaks the OpenAI chat interface."""
