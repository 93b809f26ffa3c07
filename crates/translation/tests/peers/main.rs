// SPDX-License-Identifier: GPL-2.0-or-later
//! The model beside others: what they count on the same addresses, and where a paper's machine ends.

mod cachegrind;
mod champsim;
mod ols02;
mod pycachesim;
mod streams;
