"""Methods compared, at known frequencies. Mathematics; sees no data.

accuracy         exact bias, variance and coverage of a method
baselines        other methods, to compare with
reporting_curve  the reporting probability of a key by its frequency, for each method
"""
