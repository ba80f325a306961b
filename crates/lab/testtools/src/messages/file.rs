//! A message file: `msgFormat` > `marketPriceMsgList` > one `refreshMsg`, `updateMsg`s, `postMsg`s, `genMsg`s.

use roxmltree::Node;
use rwf::DataType;

use super::{FIELDS_MAX, FieldContent, Fields, MESSAGES_MAX, MessageSet, PAYLOAD_BYTES_MAX, STAMPS, values};
use crate::xml::{FileFault, XmlFile};

pub(super) fn parse(name: &str, text: &str) -> Result<MessageSet, FileFault> {
    let file = XmlFile::parse(name, text)?;
    let root = file.root("msgFormat")?;
    // Lists of other domains are nothing to these tools.
    let list = file.only(root, "marketPriceMsgList")?;
    let mut image = None;
    let (mut updates, mut posts, mut generics) = (Vec::new(), Vec::new(), Vec::new());
    for message in file.children(list, &["refreshMsg", "updateMsg", "postMsg", "genMsg"]) {
        let message = message?;
        let kind = match message.tag_name().name() {
            "refreshMsg" => {
                if image.replace(image_fields(&file, message)?).is_some() {
                    return Err(file.fault(message, "a second <refreshMsg>, one is allowed"));
                }
                continue;
            }
            "updateMsg" => &mut updates,
            "postMsg" => &mut posts,
            _ => &mut generics,
        };
        if kind.len() == MESSAGES_MAX {
            return Err(file.fault(message, format!("more than {MESSAGES_MAX} messages of its kind")));
        }
        // A post holds the update that it posts.
        let holder = if message.has_tag_name("postMsg") { file.only(message, "updateMsg")? } else { message };
        kind.push(fields(&file, holder)?);
    }
    let Some(image) = image else { return Err(file.fault(list, "no <refreshMsg>, one is needed")) };
    if updates.is_empty() {
        return Err(file.fault(list, "no <updateMsg>, at least one is needed"));
    }
    for (attribute, found) in
        [("updateMsgCount", &updates), ("postMsgCount", &posts), ("genMsgCount", &generics)]
    {
        let said = file.number(list, attribute, (0, MESSAGES_MAX as i64))?;
        if said.is_some_and(|said| said != found.len() as i64) {
            let what = format!("{attribute} is {}, there are {}", said.unwrap_or(0), found.len());
            return Err(file.fault(list, what));
        }
    }
    Ok(MessageSet { file: name.to_owned(), image, updates, posts, generics })
}

/// The fields of the image, and the time stamps as blanks.
fn image_fields<'d>(file: &'d XmlFile<'_>, message: Node<'d, '_>) -> Result<Fields, FileFault> {
    let mut image = fields(file, message)?;
    let line = image.0.last().map_or(0, |field| field.line);
    let blank = |id| FieldContent { id, data_type: DataType::UINT, content: Box::default(), line };
    image.0.extend(STAMPS.map(blank));
    Ok(image)
}

/// The fields of a message, at least one.
fn fields<'d>(file: &'d XmlFile<'_>, message: Node<'d, '_>) -> Result<Fields, FileFault> {
    let body = file.only(message, "dataBody")?;
    let list = file.only(body, "fieldList")?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for entry in list.children().filter(Node::is_element) {
        if !entry.has_tag_name("fieldEntry") {
            let what = format!("<{}> is not allowed here; allowed: <fieldEntry>", entry.tag_name().name());
            return Err(file.fault(entry, what));
        }
        if found.len() == FIELDS_MAX {
            return Err(file.fault(entry, format!("more than {FIELDS_MAX} fields in a message")));
        }
        let field = field(file, entry)?;
        bytes += field.content.len() + 5;
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(file.fault(entry, format!("a message of more than {PAYLOAD_BYTES_MAX} bytes")));
        }
        found.push(field);
    }
    if found.is_empty() { Err(file.fault(list, "a message without fields")) } else { Ok(Fields(found)) }
}

fn field(file: &XmlFile<'_>, entry: Node<'_, '_>) -> Result<FieldContent, FileFault> {
    let range = (i64::from(i16::MIN), i64::from(i16::MAX));
    let id = file
        .number(entry, "fieldId", range)?
        .ok_or_else(|| file.fault(entry, "<fieldEntry> has no attribute fieldId"))? as i16;
    if STAMPS.contains(&id) {
        let what = format!("field {id} is a time stamp, which the tools set themselves: leave it out");
        return Err(file.fault(entry, what));
    }
    let attribute = |name: &str| {
        entry.attribute(name).ok_or_else(|| file.fault(entry, format!("field {id} has no attribute {name}")))
    };
    let data_type = values::data_type(attribute("dataType")?)
        .map_err(|what| file.fault(entry, format!("field {id}: {what}")))?;
    let content = values::content(data_type, attribute("data")?)
        .map_err(|what| file.fault(entry, format!("field {id}: {what}")))?;
    Ok(FieldContent { id, data_type, content: content.into(), line: file.line(entry) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"<msgFormat><marketPriceMsgList updateMsgCount="1" postMsgCount="1" genMsgCount="1">
<refreshMsg><dataBody><fieldList entryCount="7"><fieldEntry fieldId="22" dataType="RSSL_DT_REAL" data="1.5"/></fieldList></dataBody></refreshMsg>
<updateMsg><dataBody><fieldList><fieldEntry fieldId="-25" dataType="RSSL_DT_UINT" data=""/></fieldList></dataBody></updateMsg>
<postMsg><updateMsg><dataBody><fieldList><fieldEntry fieldId="5" dataType="RSSL_DT_TIME" data="1:2"/></fieldList></dataBody></updateMsg></postMsg>
<genMsg><!--updateMsg--><dataBody><fieldList><fieldEntry fieldId="15" dataType="RSSL_DT_ENUM" data="1"/></fieldList></dataBody></genMsg>
</marketPriceMsgList></msgFormat>"#;

    #[test]
    fn a_file_has_an_image_and_messages_of_each_kind() {
        let set = MessageSet::parse("m.xml", GOOD).expect("good");
        let ids = |fields: &Fields| fields.0.iter().map(|field| field.id).collect::<Vec<_>>();
        assert_eq!(ids(&set.image), [22, 3902, 3903, 3904]);
        assert_eq!(
            (ids(&set.updates[0]), ids(&set.posts[0]), ids(&set.generics[0])),
            (vec![-25], vec![5], vec![15])
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_its_value_and_what_is_allowed() {
        for (from, to, fault) in [
            (
                "fieldId=\"22\"",
                "fieldId=\"32768\"",
                "m.xml:2: fieldId \"32768\" is no number from -32768 to 32767",
            ),
            ("fieldId=\"22\"", "", "m.xml:2: <fieldEntry> has no attribute fieldId"),
            (
                "fieldId=\"22\"",
                "fieldId=\"3902\"",
                "m.xml:2: field 3902 is a time stamp, which the tools set themselves: leave it out",
            ),
            ("data=\"1.5\"", "data=\"x\"", "m.xml:2: field 22: data \"x\" is no decimal number"),
            ("data=\"1.5\"", "", "m.xml:2: field 22 has no attribute data"),
            (
                "RSSL_DT_REAL",
                "RSSL_DT_MAP",
                "m.xml:2: field 22: dataType \"RSSL_DT_MAP\" is not one of RSSL_DT_INT",
            ),
            ("updateMsgCount=\"1\"", "updateMsgCount=\"2\"", "m.xml:1: updateMsgCount is 2, there are 1"),
            (
                "updateMsgCount=\"1\"",
                "updateMsgCount=\"-1\"",
                "m.xml:1: updateMsgCount \"-1\" is no number from 0 to 1000",
            ),
            ("<genMsg>", "<genMsg/><genMsg>", "m.xml:5: <genMsg> has no <dataBody>"),
            (
                "<postMsg>",
                "<closeMsg/><postMsg>",
                "m.xml:4: <closeMsg> is not allowed here; allowed: <refreshMsg>, <updateMsg>, <postMsg>, <genMsg>",
            ),
            ("msgFormat>", "other>", "m.xml:1: <other> is not allowed here; allowed: <msgFormat>"),
        ] {
            let text = if from == "msgFormat>" { GOOD.replace(from, to) } else { GOOD.replacen(from, to, 1) };
            let found = MessageSet::parse("m.xml", &text).expect_err(to).to_string();
            assert!(found.starts_with(fault), "{found}\n{fault}");
        }
    }

    #[test]
    fn too_much_of_anything_is_refused() {
        let entry = r#"<fieldEntry fieldId="22" dataType="RSSL_DT_REAL" data="1.5"/>"#;
        let many = GOOD.replacen(entry, &entry.repeat(FIELDS_MAX + 1), 1);
        let fault = |text: &str| MessageSet::parse("m.xml", text).expect_err("too much").to_string();
        assert_eq!(fault(&many), "m.xml:2: more than 1000 fields in a message");
        let long =
            format!(r#"<fieldEntry fieldId="3" dataType="RSSL_DT_BUFFER" data="{}"/>"#, "x".repeat(60_000));
        assert_eq!(fault(&GOOD.replacen(entry, &long, 1)), "m.xml:2: a message of more than 60000 bytes");
        let generic =
            &GOOD[GOOD.find("<genMsg>").expect("is there")..GOOD.find("</genMsg>").expect("is there") + 9];
        let messages = GOOD.replacen(generic, &generic.repeat(MESSAGES_MAX + 1), 1);
        assert_eq!(fault(&messages), "m.xml:5: more than 1000 messages of its kind");
        assert_eq!(fault(&GOOD.replacen(entry, "", 1)), "m.xml:2: a message without fields");
        assert_eq!(
            fault("<msgFormat><marketPriceMsgList/></msgFormat>"),
            "m.xml:1: no <refreshMsg>, one is needed"
        );
    }

    #[test]
    fn a_field_is_held_against_the_dictionary() {
        let dictionary = crate::dictionary::load(None).expect("good");
        let set = MessageSet::parse("m.xml", GOOD).expect("good");
        let fault = set.check(&dictionary).expect_err("-25 is unknown").to_string();
        assert_eq!(fault, "m.xml:3: field -25 is not in the dictionary");
        let typed = GOOD.replace("fieldId=\"-25\"", "fieldId=\"25\"");
        let fault = MessageSet::parse("m.xml", &typed).expect("good").check(&dictionary);
        let fault = fault.expect_err("a REAL").to_string();
        assert!(fault.starts_with("m.xml:3: field 25 is of type"), "{fault}");
    }
}
