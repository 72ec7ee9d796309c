"""Short cuts in front of the reader: frames that are like earlier ones, for a part of what reading them in full costs.

Rule: a short cut gives exactly what the full reading gives, or takes nothing; without this folder every frame would be
read all the same, slower. So nothing of the full reading imports it: connection.py asks it first.
"""
