"""The sixty cases that users of Artemis rely on, by their numbers: `test_case_NN_…` is case NN.

Each runs against one broker and against a cluster of two edges and three owners.
"""
