"""Turns the bytes of a message into a page (fields, character set, kind of content), without I/O and without a
clock.
"""

from spotsieve.stream.sign.intake.content import make_page
from spotsieve.stream.sign.intake.decoder import Acceptance, Decoder, Message
from spotsieve.stream.sign.intake.fields import shorten

__all__ = ["Acceptance", "Decoder", "Message", "make_page", "shorten"]
