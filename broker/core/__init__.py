"""The nouns of the broker: ids, runs, commands, effects, log records, errors, reasons.

One rule: values only, no behaviour beyond validation. Knows nothing of sockets, files, clocks or loops.
"""
