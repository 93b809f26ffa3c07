// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks at pages and pictures in a browser without a screen, for tests.

use std::path::PathBuf;
use std::process::Command;

/// Debian's names of browsers that can do this.
const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];
/// A telephone's width and a screen's.
const WIDTHS: [u32; 2] = [390, 1200];

/// Prints what is wrong in each frame: texts of a picture that cover each other, that are cut off or
/// that are too small to read, and a page that is wider than its frame.
const LOOK: &str = r#"
onload = () => {
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, room = page.documentElement, wrong = [];
    const alone = room.localName == 'svg';
    let texts = 0;
    for (const picture of alone ? [room] : page.querySelectorAll('svg')) {
      const all = [...picture.querySelectorAll('text')].map(it => [it.textContent.trim(), it.getBoundingClientRect()]);
      const edge = picture.getBoundingClientRect();
      texts += all.length;
      all.forEach(([text, box], at) => {
        if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 || box.bottom > edge.bottom + 1)
          wrong.push(`${text} is cut off`);
        if (Math.max(box.height, box.width) < 9)
          wrong.push(`${text} is too small`);
        for (const [other, its] of all.slice(at + 1)) {
          const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
          const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
          // A line's box is higher than its letters.
          if (wide > 1 && high > box.height / 4)
            wrong.push(`${text} covers ${other}`);
        }
      });
    }
    if (!texts)
      wrong.push('no texts');
    if (!alone && room.scrollWidth > room.clientWidth)
      wrong.push(`the page is ${room.scrollWidth} wide`);
    for (const what of wrong)
      frame.after(`\n[${frame.title}: ${what}]\n`);
    frame.after('\n[looked]\n');
  }
};
"#;

/// Fails if a page or picture is hard to read at one of [`WIDTHS`]. Says so where there is no
/// browser to look with.
pub fn check(files: &[PathBuf]) {
    let Some(browser) = browser() else {
        eprintln!(
            "skipped: no {}: `cohort lab setup` installs one",
            BROWSERS.join(" or ")
        );
        return;
    };
    let wrong = look(browser, files);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn browser() -> Option<&'static str> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &&str| std::env::split_paths(&paths).any(|dir| dir.join(name).exists());
    BROWSERS.into_iter().find(found)
}

/// What is wrong with pages and pictures. A browser's own window cannot be as narrow as a telephone,
/// frames in it can.
fn look(browser: &str, files: &[PathBuf]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut html = String::from("<!DOCTYPE html><body>");
    for file in files {
        for width in WIDTHS {
            let name = file.file_name().unwrap().to_string_lossy();
            html += &format!(
                "<iframe src='file://{}' title='{name} at {width}' \
                 style='border:0;height:1000px;width:{width}px'></iframe>",
                file.display()
            );
        }
    }
    let frames = dir.path().join("frames.html");
    std::fs::write(&frames, format!("{html}<script>{LOOK}</script>")).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--allow-file-access-from-files")
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("file://{}", frames.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut lines, looked): (Vec<&str>, Vec<&str>) = text
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'))
        .partition(|line| *line != "looked");
    let expected = files.len() * WIDTHS.len();
    assert_eq!(
        looked.len(),
        expected,
        "{browser} did not look at all: {output:?}"
    );
    lines.sort_unstable();
    lines.into_iter().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_cover_each_other_or_are_cut_off_are_found() {
        let Some(browser) = browser() else {
            eprintln!("skipped: no browser");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let svg = |texts: &str| format!("<svg width='300' height='100'>{texts}</svg>");
        let page = |name: &str, body: String| {
            let file = dir.path().join(format!("{name}.html"));
            std::fs::write(&file, format!("<!DOCTYPE html><body>{body}")).unwrap();
            file
        };
        let one = "<text x='9' y='30'>one</text>";
        let wide = "<div style='width:500px'>wide</div>";
        let files = [
            page("good", svg(&format!("{one}<text x='9' y='60'>two</text>"))),
            page(
                "covered",
                svg(&format!("{one}<text x='20' y='33'>two</text>")),
            ),
            page("cut", svg("<text x='290' y='30'>one</text>")),
            page("small", svg("<text x='9' y='30' font-size='4'>one</text>")),
            page("wide", svg(one) + wide),
            page("none", svg("")),
        ];
        let expected = [
            "covered.html at 1200: one covers two",
            "covered.html at 390: one covers two",
            "cut.html at 1200: one is cut off",
            "cut.html at 390: one is cut off",
            "none.html at 1200: no texts",
            "none.html at 390: no texts",
            "small.html at 1200: one is too small",
            "small.html at 390: one is too small",
            "wide.html at 390: the page is 508 wide",
        ];
        assert_eq!(look(browser, &files), expected);
    }
}
