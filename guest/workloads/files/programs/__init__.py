# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose processes come from one parent, each in a file of its own.

Each is a generator that yields its process once it runs, does the work when resumed, and
stops the program when it is closed.
"""
