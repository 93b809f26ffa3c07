// SPDX-License-Identifier: GPL-2.0-or-later
//! How events are coded in a block.
//!
//! A byte says what the event is; numbers follow in groups of seven bits, the lowest first
//! (LEB128). Virtual addresses are differences to the last one of the same core and kind, and a
//! physical address that the page's last one implies is left out, so that most accesses take two to
//! four bytes. Writer and reader keep the same state; it lasts over blocks.
//!
//! ```text
//! 1kkp psss   access: kind, physical address (0 none, 1 implied, 2 follows), size (2^s; 7 follows)
//! 01nn nnnn   n + 1 instructions
//! 00tt tttt   another event, below
//! ```

use super::TraceError;
use crate::code::Op;
use crate::event::{AccessKind, Context, Identity, Invalidation, Mark, Member, Privilege, Segment};
use crate::tlbi::{Drop, Tables};

/// First bytes of the events that are neither access nor a few instructions.
pub mod tag {
    /// The core of the events that follow.
    pub const CORE: u8 = 0;
    /// Instructions, many.
    pub const INSTRUCTIONS: u8 = 1;
    /// A context.
    pub const CONTEXT: u8 = 2;
    /// An identity.
    pub const IDENTITY: u8 = 3;
    /// Segments.
    pub const SEGMENTS: u8 = 4;
    /// A private copy.
    pub const PRIVATE_COPY: u8 = 5;
    /// An address space is gone.
    pub const RETIRE: u8 = 6;
    /// An invalidation.
    pub const INVALIDATE: u8 = 7;
    /// A fault.
    pub const FAULT: u8 = 8;
    /// The end of its handling.
    pub const FAULT_DONE: u8 = 9;
    /// A mark.
    pub const MARK: u8 = 10;
    /// 64 bits of guest memory: an address divided by eight, a value.
    pub const MEMORY: u8 = 11;
    /// A block of code: its number, how many instructions, and each.
    pub const DEFINE: u8 = 12;
    /// A block of code is executed.
    pub const EXECUTE: u8 = 13;
    /// The instruction of the next access, where it is not the next that accesses memory so; the
    /// number of instructions if it is none.
    pub const AT: u8 = 14;
    /// What BabelFish's kernel says of the process that runs.
    pub const MEMBER: u8 = 15;
}

/// The largest number of a block of code.
const BLOCKS_MAX: u32 = 1 << 24;
/// Instructions of a block at most.
const CODE_MAX: u64 = 1 << 16;

/// Pages of a core of which writer and reader remember the physical page.
const PAGES: usize = 1024;

/// State that writer and reader both have.
#[derive(Clone)]
pub struct State {
    /// By core and kind.
    last: Vec<[u64; 3]>,
    pages: Vec<(u64, u64)>,
    /// The last word of memory that was given.
    pub word: u64,
    /// Blocks of code, by number.
    pub code: Vec<Box<[Op]>>,
    /// By core.
    pub place: Vec<Place>,
}

/// Where a core is in its block of code.
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// The number of the block, if it executes one.
    pub block: Option<u32>,
    /// The instruction and kind of its last access.
    last: Option<(u32, AccessKind)>,
}

impl Place {
    /// At the beginning of a block.
    pub fn enter(block: u32) -> Self {
        Self {
            block: Some(block),
            last: None,
        }
    }

    /// An access was made.
    pub fn accessed(&mut self, instruction: u32, kind: AccessKind) {
        self.last = Some((instruction, kind));
    }
}

impl State {
    /// At the beginning of a trace.
    pub fn new(cores: usize) -> Self {
        Self {
            last: vec![[0; 3]; cores],
            pages: vec![(u64::MAX, 0); cores * PAGES],
            word: 0,
            code: Vec::new(),
            place: vec![Place::default(); cores],
        }
    }

    /// A number is given to a block of code. A core that is in the one before is so no more.
    pub fn define(&mut self, block: u32, code: Box<[Op]>) {
        let number = block as usize;
        if self.code.len() <= number {
            self.code.resize(number + 1, Box::default());
        }
        self.code[number] = code;
        for place in &mut self.place {
            if place.block == Some(block) {
                *place = Place::default();
            }
        }
    }

    /// The instruction that an access of this kind most likely is of: the next of its block that
    /// loads or stores, or the same if it does both. The number of instructions if there is none.
    pub fn expected(&self, core: usize, block: u32, kind: AccessKind) -> u32 {
        let code = self.code.get(block as usize).map_or(&[][..], |code| code);
        let fits = |op: &Op| match kind {
            AccessKind::Write => op.stores,
            _ => op.loads,
        };
        let first = match self.place[core].last {
            None => 0,
            // What was loaded is changed and stored.
            Some((last, AccessKind::Read)) if kind == AccessKind::Write => last as usize,
            Some((last, _)) => last as usize + 1,
        };
        let next = code.iter().skip(first).position(fits);
        next.map_or(code.len(), |next| first + next) as u32
    }

    fn page(&mut self, core: usize, vaddr: u64) -> &mut (u64, u64) {
        &mut self.pages[core * PAGES + (vaddr >> 12) as usize % PAGES]
    }
}

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Appends an access.
pub fn put_access(
    out: &mut Vec<u8>,
    state: &mut State,
    core: usize,
    kind: AccessKind,
    vaddr: u64,
    paddr: Option<u64>,
    size: u32,
) {
    let size_code = match size {
        1 | 2 | 4 | 8 | 16 | 32 | 64 => size.trailing_zeros() as u8,
        _ => 7,
    };
    let page = state.page(core, vaddr);
    let paddr_code = match paddr {
        None => 0,
        Some(paddr) if *page == (vaddr >> 12, paddr >> 12) && (paddr ^ vaddr) & 0xfff == 0 => 1,
        Some(_) => 2,
    };
    out.push(0x80 | (kind as u8) << 5 | paddr_code << 3 | size_code);
    let last = &mut state.last[core][kind as usize];
    put(out, zigzag(vaddr.wrapping_sub(*last)));
    *last = vaddr;
    if let (2, Some(paddr)) = (paddr_code, paddr) {
        put(out, paddr);
        *state.page(core, vaddr) = (vaddr >> 12, paddr >> 12);
    }
    if size_code == 7 {
        put(out, u64::from(size));
    }
}

/// Appends a context.
pub fn put_context(out: &mut Vec<u8>, context: &Context) {
    out.push(tag::CONTEXT);
    let privilege = match context.privilege {
        Privilege::Unknown => 0,
        Privilege::User => 1,
        Privilege::Kernel => 2,
    };
    for value in [
        u64::from(context.paging),
        context.root,
        context.root_high,
        u64::from(context.split),
        u64::from(context.levels),
        u64::from(context.asid),
        u64::from(context.dacr),
        privilege,
    ] {
        put(out, value);
    }
}

/// The code of [`Invalidation::Exact`]. Only traces of ARM guests have it. A program that is older than
/// this code refuses them.
const EXACT: u8 = 8;

/// The bits of [`Invalidation::Exact`] above its tag: it has a tag, has a range, takes global entries;
/// then which entries that point to tables.
mod exact {
    use crate::tlbi::Tables;

    pub const TAG: u32 = 1 << 16;
    pub const RANGE: u32 = 1 << 17;
    pub const GLOBAL: u32 = 1 << 18;
    pub const TABLES_SHIFT: u32 = 19;
    pub const TABLES: [Tables; 3] = [Tables::All, Tables::Above, Tables::Kept];
}

fn exact_bits(what: &Drop) -> u32 {
    let tables = match what.tables {
        Tables::All => 0,
        Tables::Above => 1,
        Tables::Kept => 2,
    };
    let flag = |on, bit| if on { bit } else { 0 };
    tables << exact::TABLES_SHIFT
        | what.tag.map_or(0, |tag| exact::TAG | u32::from(tag))
        | flag(what.range.is_some(), exact::RANGE)
        | flag(what.global, exact::GLOBAL)
}

/// Appends an invalidation.
pub fn put_invalidation(out: &mut Vec<u8>, what: Invalidation) {
    let (code, first, second) = match what {
        Invalidation::Page { vaddr } => (0, vaddr, 0),
        Invalidation::PageAllSpaces { vaddr } => (1, vaddr, 0),
        Invalidation::SharedPage { vaddr, cohort } => (2, vaddr, u64::from(cohort)),
        Invalidation::AddressSpace { root } => (3, root, 0),
        Invalidation::AllButGlobal => (4, 0, 0),
        Invalidation::All => (5, 0, 0),
        Invalidation::SharedPages { ccid, vaddr, order } => {
            (6, vaddr, u64::from(ccid) << 8 | u64::from(order))
        }
        Invalidation::Ccid { ccid } => (7, 0, u64::from(ccid)),
        Invalidation::Exact(what) => {
            let first = what.range.map_or(0, |(first, _)| first);
            (EXACT, first, exact_bits(&what).into())
        }
    };
    out.extend([tag::INVALIDATE, code]);
    put(out, first);
    put(out, second);
    if let Invalidation::Exact(what) = what {
        put(
            out,
            what.range
                .map_or(0, |(first, last)| last.wrapping_sub(first)),
        );
        let (first, last) = what.sizes.unwrap_or_default();
        put(out, u64::from(first) << 8 | u64::from(last));
    }
}

/// Appends a block of code.
pub fn put_code(out: &mut Vec<u8>, block: u32, code: &[Op]) {
    out.push(tag::DEFINE);
    put(out, block.into());
    put(out, code.len() as u64);
    for op in code {
        let sets = [op.address, op.reads, op.writes];
        let mut head = u8::from(op.loads) | u8::from(op.stores) << 1;
        for (number, &set) in sets.iter().enumerate() {
            head |= u8::from(set != 0) << (2 + number);
        }
        out.push(head);
        for set in sets.into_iter().filter(|&set| set != 0) {
            put(out, set);
        }
    }
}

/// Appends segments.
pub fn put_segments(out: &mut Vec<u8>, segments: &[Segment]) {
    put(out, segments.len() as u64);
    for part in segments {
        for value in [part.start, part.end, part.offset] {
            put(out, value);
        }
    }
}

/// Appends what BabelFish's kernel says of the process that runs.
pub fn put_member(out: &mut Vec<u8>, member: &Member) {
    out.push(tag::MEMBER);
    for value in [member.ccid.into(), member.pid.into(), member.group] {
        put(out, value);
    }
    put_segments(out, &member.segments);
}

/// Appends a mark.
pub fn put_mark(out: &mut Vec<u8>, mark: Mark) {
    let (code, id) = match mark {
        Mark::Start => (0, 0),
        Mark::Stop => (1, 0),
        Mark::RequestBegin { id } => (2, id),
        Mark::RequestEnd { id } => (3, id),
    };
    out.extend([tag::MARK, code]);
    put(out, id);
}

/// A block being decoded.
pub struct Block<'a> {
    bytes: &'a [u8],
    next: usize,
    /// Where the block begins in the file, for messages.
    at: u64,
}

impl<'a> Block<'a> {
    /// From its first event.
    pub fn new(bytes: &'a [u8], at: u64) -> Self {
        Self { bytes, next: 0, at }
    }

    /// The error for bytes that mean nothing.
    #[cold]
    pub fn damaged(&self, what: &'static str) -> TraceError {
        TraceError::Damaged { at: self.at, what }
    }

    /// The first byte of the next event; `None` at the end of the block.
    #[inline(always)]
    pub fn first(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.next).copied()?;
        self.next += 1;
        Some(byte)
    }

    fn byte(&mut self) -> Result<u8, TraceError> {
        self.first()
            .ok_or_else(|| self.damaged("an event is cut off"))
    }

    /// A number.
    #[inline(always)]
    pub fn number(&mut self) -> Result<u64, TraceError> {
        // Up to eight bytes at once: their number changes from access to access and could not be
        // predicted, so nothing here depends on it but the shift.
        if let Some(bytes) = self.bytes.get(self.next..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*bytes);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let last = ends.trailing_zeros();
                self.next += last as usize / 8 + 1;
                let value = word & (u64::MAX >> (63 - last)) & 0x7f7f_7f7f_7f7f_7f7f;
                let value = value & 0x007f_007f_007f_007f | (value & 0x7f00_7f00_7f00_7f00) >> 1;
                let value = value & 0x0000_3fff_0000_3fff | (value & 0x3fff_0000_3fff_0000) >> 2;
                return Ok(value & 0x0fff_ffff | (value & 0x0fff_ffff_0000_0000) >> 4);
            }
        }
        self.long_number()
    }

    /// A number of more than eight bytes, or at the end of the block.
    #[inline(never)]
    fn long_number(&mut self) -> Result<u64, TraceError> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return Err(self.damaged("a number is too long"));
            }
        }
    }

    /// A number that must fit.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, TraceError> {
        let value = self.number()?;
        T::try_from(value).map_err(|_| self.damaged("a number is too large"))
    }

    /// The rest of an access, whose first byte is given.
    #[inline(always)]
    pub fn access(
        &mut self,
        state: &mut State,
        core: usize,
        first: u8,
    ) -> Result<(AccessKind, u64, Option<u64>, u32), TraceError> {
        let kind = self.kind(first >> 5 & 3)?;
        let last = state.last[core][kind as usize];
        let vaddr = last.wrapping_add(unzigzag(self.number()?));
        state.last[core][kind as usize] = vaddr;
        let paddr = match first >> 3 & 3 {
            0 => None,
            1 => {
                let (page, frame) = *state.page(core, vaddr);
                if page != vaddr >> 12 {
                    return Err(self.damaged("an access implies a page that was not given"));
                }
                Some(frame << 12 | vaddr & 0xfff)
            }
            2 => {
                let paddr = self.number()?;
                *state.page(core, vaddr) = (vaddr >> 12, paddr >> 12);
                Some(paddr)
            }
            _ => return Err(self.damaged("an access is of no known form")),
        };
        let size = match first & 7 {
            7 => self.small()?,
            code => 1 << code,
        };
        Ok((kind, vaddr, paddr, size))
    }

    /// A kind of access.
    #[inline(always)]
    pub fn kind(&mut self, code: u8) -> Result<AccessKind, TraceError> {
        match code {
            0 => Ok(AccessKind::Fetch),
            1 => Ok(AccessKind::Read),
            2 => Ok(AccessKind::Write),
            _ => Err(self.damaged("a kind of access is unknown")),
        }
    }

    /// The rest of a context.
    pub fn context(&mut self) -> Result<Context, TraceError> {
        Ok(Context {
            paging: self.number()? != 0,
            root: self.number()?,
            root_high: self.number()?,
            split: self.small()?,
            levels: self.small()?,
            asid: self.small()?,
            dacr: self.small()?,
            privilege: match self.number()? {
                0 => Privilege::Unknown,
                1 => Privilege::User,
                2 => Privilege::Kernel,
                _ => return Err(self.damaged("a privilege is unknown")),
            },
        })
    }

    /// The rest of an identity.
    pub fn identity(&mut self) -> Result<(u64, Identity), TraceError> {
        let root = self.number()?;
        Ok((
            root,
            Identity {
                process: self.small()?,
                cohort: self.small()?,
            },
        ))
    }

    /// The rest of what BabelFish's kernel says of a process.
    pub fn member(&mut self) -> Result<Member, TraceError> {
        Ok(Member {
            ccid: self.small()?,
            pid: self.small()?,
            group: self.number()?,
            segments: self.segments()?,
        })
    }

    /// Segments.
    pub fn segments(&mut self) -> Result<Vec<Segment>, TraceError> {
        let count = self.number()?;
        if count > crate::event::SEGMENTS_MAX as u64 {
            return Err(self.damaged("a process has too many segments"));
        }
        let mut segments = Vec::new();
        for _ in 0..count {
            let (start, end) = (self.number()?, self.number()?);
            segments.push(Segment {
                start,
                end,
                offset: self.number()?,
            });
        }
        Ok(segments)
    }

    /// The rest of an invalidation.
    pub fn invalidation(&mut self) -> Result<Invalidation, TraceError> {
        let code = self.byte()?;
        let first = self.number()?;
        let second: u32 = self.small()?;
        let ccid = |bits: u32| u16::try_from(bits).map_err(|_| self.damaged("a CCID is too large"));
        Ok(match code {
            0 => Invalidation::Page { vaddr: first },
            1 => Invalidation::PageAllSpaces { vaddr: first },
            2 => Invalidation::SharedPage {
                vaddr: first,
                cohort: second,
            },
            6 => Invalidation::SharedPages {
                ccid: ccid(second >> 8)?,
                vaddr: first,
                order: second as u8,
            },
            7 => Invalidation::Ccid {
                ccid: ccid(second)?,
            },
            3 => Invalidation::AddressSpace { root: first },
            4 => Invalidation::AllButGlobal,
            5 => Invalidation::All,
            EXACT => Invalidation::Exact(self.exact(first, second)?),
            _ => return Err(self.damaged("an invalidation is unknown")),
        })
    }

    /// The rest of what an instruction names by the hardware's tag.
    fn exact(&mut self, first: u64, bits: u32) -> Result<Drop, TraceError> {
        let length: u64 = self.number()?;
        let sizes: u32 = self.small()?;
        let tables = exact::TABLES.get((bits >> exact::TABLES_SHIFT) as usize);
        let Some(&tables) = tables else {
            return Err(self.damaged("an invalidation is of no known form"));
        };
        Ok(Drop {
            tag: (bits & exact::TAG != 0).then_some(bits as u16),
            global: bits & exact::GLOBAL != 0,
            range: (bits & exact::RANGE != 0).then_some((first, first.wrapping_add(length))),
            // No page has a size of 0.
            sizes: (sizes != 0).then_some((sizes >> 8, sizes & 0xff)),
            tables,
        })
    }

    /// The rest of a block of code.
    pub fn code(&mut self) -> Result<(u32, Box<[Op]>), TraceError> {
        let block = self.small()?;
        let count: u64 = self.number()?;
        if block > BLOCKS_MAX || count > CODE_MAX {
            return Err(self.damaged("a block of code is too large"));
        }
        let mut code = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let head = self.byte()?;
            if head >= 1 << 5 {
                return Err(self.damaged("an instruction is of no known form"));
            }
            let mut set = |bit: u8| match head >> bit & 1 {
                1 => self.number(),
                _ => Ok(0),
            };
            code.push(Op {
                address: set(2)?,
                reads: set(3)?,
                writes: set(4)?,
                loads: head & 1 != 0,
                stores: head & 2 != 0,
            });
        }
        Ok((block, code.into()))
    }

    /// The rest of a mark.
    pub fn mark(&mut self) -> Result<Mark, TraceError> {
        let code = self.byte()?;
        let id = self.number()?;
        Ok(match code {
            0 => Mark::Start,
            1 => Mark::Stop,
            2 => Mark::RequestBegin { id },
            3 => Mark::RequestEnd { id },
            _ => return Err(self.damaged("a mark is unknown")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_instruction_names_is_read_as_it_was_written() {
        let page = Drop::page(0xffff, u64::MAX - 0xfff);
        let wide = Drop {
            tag: None,
            range: Some((0x1000, 0x7f_ffff_ffff)),
            tables: Tables::Kept,
            ..page
        };
        let above = Drop {
            tables: Tables::Above,
            ..page
        };
        let sized = Drop {
            sizes: Some((12, 20)),
            ..page
        };
        for what in [
            Drop::ALL,
            Drop::BUT_GLOBAL,
            Drop::tag(0),
            page,
            wide,
            above,
            sized,
        ] {
            let mut bytes = Vec::new();
            put_invalidation(&mut bytes, Invalidation::Exact(what));
            let mut block = Block::new(&bytes[1..], 0);
            assert_eq!(block.invalidation().unwrap(), Invalidation::Exact(what));
            assert_eq!(block.next, bytes.len() - 1);
            bytes.pop();
            assert!(Block::new(&bytes[1..], 0).invalidation().is_err());
        }
        let mut bytes = vec![EXACT];
        put(&mut bytes, 0);
        put(&mut bytes, 3 << exact::TABLES_SHIFT);
        put(&mut bytes, 0);
        put(&mut bytes, 0);
        assert!(Block::new(&bytes, 0).invalidation().is_err());
    }

    /// Every length, at the end of a block and before it, alike.
    #[test]
    fn numbers_of_every_length_are_read_as_they_were_written() {
        let edges = (0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1, power | 1 << (bit / 2)]
        });
        for value in edges.chain([u64::MAX, u64::MAX - 1, 0x1234_5678_9abc_def0]) {
            for after in 0..12 {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                let length = bytes.len();
                // What follows looks like more of it.
                bytes.extend(vec![0xff; after]);
                let mut block = Block::new(&bytes, 0);
                assert_eq!(block.number().unwrap(), value, "{value:#x}, {after} after");
                assert_eq!(block.next, length, "{value:#x}, {after} after");
            }
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.pop();
            bytes.iter_mut().for_each(|byte| *byte |= 0x80);
            assert!(
                Block::new(&bytes, 0).number().is_err(),
                "{value:#x} cut off"
            );
        }
        assert!(Block::new(&[0xff; 16], 0).number().is_err());
    }
}
