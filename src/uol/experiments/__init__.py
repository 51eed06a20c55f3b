"""What was measured, beside what was published: results, tables and the document made from them."""
