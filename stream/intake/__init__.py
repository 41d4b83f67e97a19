"""Turns the bytes of a message into a page: fields, character set, kind of content. It has no I/O and no clock."""

from spotsieve.stream.intake.acceptance import Acceptance
from spotsieve.stream.intake.decoder import Decoder, Message
from spotsieve.stream.intake.document import make_page
from spotsieve.stream.intake.fields import shorten

__all__ = ["Acceptance", "Decoder", "Message", "make_page", "shorten"]
