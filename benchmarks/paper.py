"""The paper's own figures (section 4): Fashion-MNIST, q = 18, alpha = 0.5."""

import numpy as np

TRAIN_ACCURACY = 0.9269  # Table "QMS result"
TEST_ACCURACY = 0.8863
FIT_SECONDS = 58.0  # ThinkPad T14, Intel i7-10510U, one thread, C

STRONG_COVERAGE = 0.6967  # Table "LEM result (test set)": the share of samples of strong loyalty type
STRONG_ACCURACY = 0.9745  # and the accuracy on those

# Row: true class; column: predicted class.
TRAIN_CONFUSION = np.array(
    [
        [5422, 1, 61, 108, 14, 2, 375, 0, 16, 1],
        [0, 5931, 1, 55, 4, 0, 6, 0, 2, 1],
        [58, 1, 5198, 44, 399, 0, 290, 0, 10, 0],
        [86, 10, 21, 5679, 124, 0, 77, 0, 3, 0],
        [12, 3, 311, 127, 5290, 0, 249, 0, 7, 1],
        [0, 0, 0, 0, 0, 5885, 0, 69, 3, 43],
        [543, 2, 368, 95, 318, 0, 4646, 0, 27, 1],
        [0, 0, 0, 0, 0, 53, 0, 5830, 0, 117],
        [9, 0, 8, 17, 10, 4, 19, 6, 5922, 5],
        [0, 0, 0, 0, 1, 35, 0, 148, 3, 5813],
    ]
)
TEST_CONFUSION = np.array(
    [
        [858, 0, 14, 26, 4, 1, 91, 0, 6, 0],
        [4, 963, 5, 19, 7, 0, 2, 0, 0, 0],
        [21, 1, 814, 10, 88, 0, 63, 0, 3, 0],
        [25, 4, 12, 897, 31, 0, 25, 0, 6, 0],
        [1, 1, 79, 27, 830, 0, 62, 0, 0, 0],
        [0, 0, 0, 1, 0, 949, 0, 19, 2, 29],
        [141, 1, 83, 27, 66, 0, 674, 0, 8, 0],
        [0, 0, 0, 0, 0, 18, 0, 954, 0, 28],
        [3, 0, 8, 6, 6, 3, 11, 3, 960, 0],
        [0, 0, 0, 0, 0, 5, 1, 30, 0, 964],
    ]
)
