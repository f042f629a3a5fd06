//! The volumes that are saved in repositories.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// How large the volumes are.
#[derive(Args, Clone)]
pub(crate) struct Volumes {
    /// The volume with one file of random bytes; 0 leaves it out
    #[arg(long, default_value_t = 1024)]
    file_mib: usize,
    /// How many files of 4 KiB the volume of small files has; 0 leaves it out
    #[arg(long, default_value_t = 20_000)]
    small_files: usize,
    /// The volume with a database and a web root, half of it compressible; 0 leaves it out
    #[arg(long, default_value_t = 2048)]
    tree_mib: usize,
}

impl Volumes {
    pub(super) fn list(&self) -> Vec<Volume> {
        let all = [Volume::OneFile(self.file_mib), Volume::SmallFiles(self.small_files), Volume::Tree(self.tree_mib)];
        all.into_iter().filter(|volume| volume.amount() > 0).collect()
    }
}

/// One volume.
#[derive(Clone, Copy)]
pub(super) enum Volume {
    OneFile(usize),
    SmallFiles(usize),
    Tree(usize),
}

impl Volume {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneFile(_) => "one file",
            Self::SmallFiles(_) => "small files",
            Self::Tree(_) => "database and web root",
        }
    }

    fn amount(self) -> usize {
        let (Self::OneFile(amount) | Self::SmallFiles(amount) | Self::Tree(amount)) = self;
        amount
    }

    /// Writes it into a new folder.
    pub(super) fn make(self, folder: &Path) -> Result<()> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        fs::create_dir_all(folder)?;
        match self {
            Self::OneFile(mib) => random.file(&folder.join("file"), mib * MIB, false),
            Self::SmallFiles(count) => (0..count).try_for_each(|number| {
                let below = folder.join(format!("{:02}", number % 100));
                fs::create_dir_all(&below)?;
                random.file(&below.join(format!("{number}")), 4 * KIB, false)
            }),
            Self::Tree(mib) => random.tree(folder, mib * MIB),
        }
    }

    /// Changes one percent: a stretch in the middle of the one file, or every hundredth file.
    pub(super) fn change(self, folder: &Path) -> Result<()> {
        let mut random = Random(0x1234_5678_9abc_def1);
        if let Self::OneFile(mib) = self {
            let mut file = File::options().write(true).open(folder.join("file"))?;
            file.seek(SeekFrom::Start((mib * MIB / 2) as u64))?;
            let mut bytes = vec![0; mib * MIB / 100];
            random.fill(&mut bytes, false);
            return Ok(file.write_all(&bytes)?);
        }
        for path in files(folder)?.into_iter().step_by(100) {
            let size = usize::try_from(fs::metadata(&path)?.len())?;
            random.file(&path, size.min(MIB), false)?;
        }
        Ok(())
    }

    /// Fails where a restored volume is another.
    pub(super) fn compare(self, folder: &Path, restored: &Path) -> Result<()> {
        let (expected, found) = (files(folder)?, files(restored)?);
        ensure!(expected.len() == found.len(), "{} files became {}", expected.len(), found.len());
        for (one, other) in expected.iter().zip(&found) {
            ensure!(one.strip_prefix(folder)? == other.strip_prefix(restored)?, "{one:?} became {other:?}");
            ensure!(equal(one, other)?, "{one:?} came back with other bytes");
        }
        Ok(())
    }
}

fn equal(one: &Path, other: &Path) -> Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; MIB], vec![0; MIB]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

/// All files below a folder, in the order of their paths.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// Numbers that look random and are always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Random bytes, or such as text and pages of a database have.
    fn fill(&mut self, bytes: &mut [u8], compressible: bool) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next();
            let word = if compressible { number & 0x0f0f_0000_0f0f_0f0f | 0x6060_6060_6060_6060 } else { number };
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }

    fn file(&mut self, path: &Path, size: usize, compressible: bool) -> Result<()> {
        let mut file = BufWriter::new(File::create(path).with_context(|| format!("cannot make {}", path.display()))?);
        let mut bytes = vec![0; size.min(MIB)];
        let mut left = size;
        while left > 0 {
            let count = left.min(MIB);
            self.fill(&mut bytes[..count], compressible);
            file.write_all(&bytes[..count])?;
            left -= count;
        }
        Ok(file.flush()?)
    }

    /// Half a database in files of at most 128 MiB, half a web root; every second file is compressible.
    fn tree(&mut self, folder: &Path, size: usize) -> Result<()> {
        let (database, web) = (folder.join("database"), folder.join("www"));
        fs::create_dir_all(&database)?;
        let mut left = size / 2;
        for number in 0.. {
            if left == 0 {
                break;
            }
            let count = left.min(128 * MIB);
            self.file(&database.join(format!("table-{number}")), count, number % 2 == 1)?;
            left -= count;
        }
        let mut left = size - size / 2;
        for number in 0.. {
            if left == 0 {
                break;
            }
            let sizes = [2 * KIB, 10 * KIB, 40 * KIB, 200 * KIB, MIB];
            let count = sizes[self.next() as usize % sizes.len()].min(left);
            let below = web.join(format!("{}", number / 200)).join(format!("{}", number % 7));
            fs::create_dir_all(&below)?;
            self.file(&below.join(format!("{number}")), count, number % 2 == 1)?;
            left -= count;
        }
        Ok(())
    }
}
