// SPDX-License-Identifier: GPL-2.0-or-later
//! The papers whose figures and tables parts are after, as footnotes name them.

pub const BABELFISH_9: &str = "Figure 9 of BabelFish (Skarlatos and others, ISCA 2020)";
pub const EUROSYS_2: &str =
    "Figure 2 of Shared Address Translation Revisited (Dong, Dwarkadas, Cox, EuroSys 2016)";
pub const EUROSYS_4: &str =
    "Figure 4 of Shared Address Translation Revisited (Dong, Dwarkadas, Cox, EuroSys 2016)";
pub const EUROSYS_TABLE_2: &str =
    "Table 2 of Shared Address Translation Revisited (Dong, Dwarkadas, Cox, EuroSys 2016)";
pub const EUROSYS_SAMPLES: &str = "Table 1, Figures 2 and 3 of Shared Address Translation \
    Revisited (Dong, Dwarkadas, Cox, EuroSys 2016)";
pub const MERGING: &str = "Figures 5 to 7 of Selective Memory Deduplication for Cost Efficiency in \
    Mobile Smart Devices (Kim, Jeong, Lee, IEEE Transactions on Consumer Electronics, 2014)";
