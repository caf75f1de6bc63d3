"""Methods compared, for given frequencies. Mathematics; sees no data.

accuracy         exact bias, variance and coverage of a method
baselines        other methods, to compare with
reporting_curve  how likely a key of each frequency is to be reported, by each method
"""
