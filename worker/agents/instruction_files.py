"""Files in which repositories tell agents their rules, in the order of their weight."""

INSTRUCTION_FILES = (
    "AGENTS.md",
    "CLAUDE.md",
    ".cursorrules",
    "CONTRIBUTING.md",
    ".github/copilot-instructions.md",
)
