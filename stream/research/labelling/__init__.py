"""Labels the user's own pages: pairs judged by people (review), and copies planted into real templates (sample)."""
