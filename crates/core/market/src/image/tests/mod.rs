//! Images against a model that knows nothing of bytes, and what they refuse.

mod limits;
mod model;
mod plain;

use rwf::{DataType, encode_to_vec};
use units::Rng;

use self::model::{Node, Shape, Tree};
use super::*;

fn written(image: &Image) -> Vec<u8> {
    encode_to_vec(|w| assert_eq!(image.write_part(&PartStart::First, usize::MAX, w), None)).expect("legal")
}

/// The image that a client has who gets the parts.
fn read_again(image: &Image, part_bytes: usize, rules: &FieldRules) -> (Image, usize) {
    let (mut again, mut at, mut count) = (Image::default(), PartStart::First, 0);
    loop {
        let mut next = None;
        let part = encode_to_vec(|w| next = image.write_part(&at, part_bytes, w)).expect("legal");
        assert_eq!(again.refresh(image.container_type(), &part, count == 0, rules), Ok(true));
        count += 1;
        match next {
            Some(more) => at = more,
            None => return (again, count),
        }
    }
}

#[test]
fn an_image_is_what_a_naive_reading_of_all_messages_says() {
    let rules = FieldRules::default();
    let (mut kinds, mut part_count) = ([0; 256], 0);
    testkit::for_each_seed!(0..1_500, |seed| {
        let mut rng = Rng::new(seed);
        let shape = Shape::any(&mut rng, 3);
        let container_type = shape.container_type();
        let (mut image, mut tree) = (Image::default(), Tree::default());
        for message in 0..12 {
            let node = Node::any(&mut rng, &shape);
            let bytes = node.encode();
            let is_refresh = message == 0 || rng.chance(0.05);
            let taken = match is_refresh {
                true => image.refresh(container_type, &bytes, true, &rules),
                false => image.update(container_type, &bytes, false, &rules),
            };
            assert_eq!(taken, Ok(true), "seed {seed}: {shape:?}");
            if is_refresh {
                tree = Tree::default();
            }
            tree.apply(&node);
            let found = Tree::read(container_type, &written(&image));
            assert_eq!(found, tree, "seed {seed}, message {message}: {shape:?}");
        }
        let (again, parts) = read_again(&image, 30, &rules);
        assert_eq!(Tree::read(container_type, &written(&again)), tree, "seed {seed}: in {parts} parts");
        assert!(written(&image).len() <= image.wire_bytes() && image.wire_bytes() <= image.bound_bytes());
        kinds[usize::from(container_type.0)] += 1;
        part_count += parts;
    });
    if testkit::repeat::is_one_seed() {
        return;
    }
    assert_eq!(kinds.iter().filter(|count| **count > 50).count(), 6, "every container is there often");
    assert!(part_count > 3_000, "{part_count}: most are cut");
}
