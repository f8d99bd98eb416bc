"""The bounded agent loop: ask the model, record its decision, run what it asks for, record the result.

Its state is the run's events. The conversation with the model is rebuilt from them whenever a
worker begins or takes over, so that a loop goes on after its own death, on another machine.
"""
