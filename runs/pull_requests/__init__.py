"""Where an approved patch becomes a branch or a pull request: one provider per file."""
