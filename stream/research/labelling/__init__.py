"""Labels pages of one's own: pairs judged by eye (review), and copies planted into real templates (sample)."""
