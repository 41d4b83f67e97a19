"""Makes a labelled set of one's own pages: copies are planted into real templates by edits of known size."""
