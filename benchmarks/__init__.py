"""Side by side with the tools that people use otherwise."""
