"""What people look at: words, tables, charts and pages.

asked        what pages ask of a release, as protocols
label        the privacy label of a release
tables       rows as text
numbers      how numbers are written for people
markup       HTML and SVG made of elements
charts       line charts and row charts, as SVG
plot         the top keys of a release as a chart
pages        the basis of all HTML pages: one document each, no network, no trust in text
report       a release as a page, from the release alone
"""
