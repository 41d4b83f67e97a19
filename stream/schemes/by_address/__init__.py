"""Schemes that keep to what the settings say of pages by their hosts and addresses, around any scheme."""
