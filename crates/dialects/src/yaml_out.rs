//! x
#[cfg(test)]
mod tests {
    #[test]
    fn probe() {
        for text in ["yes","0755","1e3","12:30:45","~"," lead","trail ","a: b","#x","a\nb\n","a\nb","  a\nb","\n","\na","a\n\n\nb\n\n","é","a\tb","\t","","0x1F","1_000","2024-01-01","=","<<","-","- a","?","!x","&a","*a","%a","@a","`a","{","[a]",",","a #b","a\r\nb","\u{7f}","\u{85}","\u{2028}","\u{feff}","...","---","on","y","N",".inf","0o7","0b11","null","true","a:","'","\"","\\","line\n  indented\n","trailing space \nx","190:20:30","1.","+1","a\u{1}b","x\n\ty\n"] {
            let v = serde_json::json!({"k": text, "l":[text], text: 1});
            let y = serde_saphyr::to_string(&v).unwrap();
            let mut out = crate::diagnostic::Diagnostics::new();
            let d = crate::parse::parse(crate::source::FileId(0), &y, &mut out);
            let ok = !d.is_empty() && out.is_empty() && d[0].root.get("k").and_then(|n| n.as_text()) == Some(text) && d[0].root.get(text).is_some() && d[0].root.get("l").and_then(|n| n.items()[0].as_text()) == Some(text);
            println!("{ok} {text:?} => {y:?}");
        }
    }
}
