"""Looking at what an agent made: the contract's checks, their feedback, the judge."""
