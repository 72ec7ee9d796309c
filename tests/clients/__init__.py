"""Clients that others wrote: stomp.py, @stomp/stompjs in Node and in Chromium."""
