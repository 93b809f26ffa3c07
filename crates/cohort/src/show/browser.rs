// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks at pages and pictures in a browser without a screen, for tests.

use std::path::Path;
use std::process::Command;

/// Debian's names of browsers that can do this.
const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];
/// A telephone's width and a screen's.
const WIDTHS: [u32; 2] = [390, 1200];

/// Prints what is wrong in the frame: texts of a picture that cover each other, that are cut off or
/// that are too small to read, and a page that is wider than the frame.
const LOOK: &str = r#"
onload = () => {
  const page = document.querySelector('iframe').contentDocument, wrong = [];
  const pictures = page.documentElement.localName == 'svg' ? [page.documentElement] : [...page.querySelectorAll('svg')];
  let texts = 0;
  for (const picture of pictures) {
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
  const room = page.documentElement;
  if (room.localName != 'svg' && room.scrollWidth > room.clientWidth)
    wrong.push(`the page is ${room.scrollWidth} wide`);
  const said = document.createElement('pre');
  said.textContent = `looked at ${texts} texts;` + wrong.join(';') + ';end';
  document.body.append(said);
};
"#;

/// Fails if a page or picture is hard to read at one of [`WIDTHS`]. Says so where there is no
/// browser to look with.
pub fn check(file: &Path) {
    let found = |name: &&&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|dir| dir.join(name).exists())
    };
    let Some(browser) = BROWSERS.iter().find(found) else {
        eprintln!(
            "skipped: no {}: `cohort lab setup` installs one",
            BROWSERS.join(" or ")
        );
        return;
    };
    for width in WIDTHS {
        let wrong = look(browser, file, width);
        assert!(
            wrong.is_empty(),
            "{} at {width}: {wrong:#?}",
            file.display()
        );
    }
}

/// What is wrong with a page or picture at a width. A browser's own window cannot be as narrow as
/// a telephone, a frame in it can.
fn look(browser: &str, file: &Path, width: u32) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let frame = dir.path().join("frame.html");
    let html = format!(
        "<!DOCTYPE html><body style='margin:0'><iframe src='file://{}' style='border:0;height:4000px;\
         width:{width}px'></iframe><script>{LOOK}</script>",
        file.display()
    );
    std::fs::write(&frame, html).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--allow-file-access-from-files")
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("--window-size={},1000", width.max(800)))
        .arg(format!("file://{}", frame.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text
        .split_once("<pre>looked at ")
        .and_then(|(_, rest)| rest.split_once(";end<"));
    let (said, _) = said.unwrap_or_else(|| panic!("{browser} did not look: {output:?}"));
    let (texts, wrong) = said.split_once(" texts;").unwrap();
    assert!(
        texts.parse::<u32>().unwrap() > 0,
        "no texts in {}",
        file.display()
    );
    let wrong = wrong.split(';').filter(|text| !text.is_empty());
    wrong.map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the browser says of a picture at the width of a telephone.
    fn said(picture: &str) -> Option<Vec<String>> {
        let browser = BROWSERS
            .iter()
            .find(|name| Command::new(name).arg("--version").output().is_ok())?;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("page.html");
        std::fs::write(&file, format!("<!DOCTYPE html><body>{picture}")).unwrap();
        Some(look(browser, &file, 390))
    }

    #[test]
    fn texts_that_cover_each_other_or_are_cut_off_are_found() {
        let svg = |texts: &str| format!("<svg width='300' height='100'>{texts}</svg>");
        let Some(good) = said(&svg(
            "<text x='9' y='30'>one</text><text x='9' y='60'>two</text>",
        )) else {
            eprintln!("skipped: no browser");
            return;
        };
        assert_eq!(good, [""; 0]);
        let covered = svg("<text x='9' y='30'>one</text><text x='20' y='33'>two</text>");
        assert_eq!(said(&covered).unwrap(), ["one covers two"]);
        let cut = svg("<text x='290' y='30'>one</text>");
        assert_eq!(said(&cut).unwrap(), ["one is cut off"]);
        let small = svg("<text x='9' y='30' font-size='4'>one</text>");
        assert_eq!(said(&small).unwrap(), ["one is too small"]);
        let wide = svg("<text x='9' y='30'>one</text>") + "<div style='width:500px'>wide</div>";
        assert_eq!(said(&wide).unwrap(), ["the page is 508 wide"]);
    }
}
