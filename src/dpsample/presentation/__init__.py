"""What people look at: words, tables, charts and pages.

explain      a release in plain words
label        its privacy label
tables       rows as text
charts       line and bar charts
page_charts  the line charts of pages
plot         the top keys of a release as a chart
pages        the basis of all HTML pages: one document each, no network, no trust in text
report       a release as a page, from the release alone
"""
