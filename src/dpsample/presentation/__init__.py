"""What people look at: words, tables, charts and pages.

explain  what a release is, in plain words
tables   how rows are shown
charts   how charts look
pages    what our HTML pages share: one document each, no network, no trust in text
report   a release as a page, from the release alone
"""
