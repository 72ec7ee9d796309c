"""Tests. A package so that any folder can import tests.harness."""
