"""Finds the text of a page that its scripts would show, and pages that have no text without their scripts."""
