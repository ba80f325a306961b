//! Values that a section's key chooses by one name.

use config::{Loaded, Loader, PresetValues};
use tickcast_config as config;

config::section! {
    /// Everything.
    struct RootConfig {
        /// A part.
        engine: EngineConfig;
    }
}

config::choice! {
    /// What the engine is for.
    enum Preset {
        /// Speed.
        Fast = "fast",
        /// Nothing in particular.
        Plain = "plain",
    }
}

config::section! {
    /// The engine.
    struct EngineConfig {
        /// What for.
        preset: Option<Preset> = None;
        /// How many cylinders.
        cylinders: u32 = 4, range 1..=16;
        /// What it burns.
        fuels: Vec<String> = ["petrol"];
        /// Its top speed.
        speed_limit: u32 = 200;
        /// A name, if it has one.
        name: Option<String> = None;
    }
    check = EngineConfig::check;
    presets = PRESETS;
}

const PRESETS: &[PresetValues] = &[PresetValues {
    name: Preset::Fast.name(),
    values: &[("cylinders", "12"), ("fuels", "alcohol,petrol"), ("speed_limit", "300")],
}];

impl EngineConfig {
    fn check(&self) -> Result<(), Vec<config::Complaint>> {
        if self.cylinders <= 12 || self.speed_limit == 0 {
            return Ok(());
        }
        Err(vec![config::Complaint::new(["speed_limit", "cylinders"], "so many need no limit")])
    }
}

fn loaded(loader: Loader<RootConfig>) -> Loaded<RootConfig> {
    loader.load().unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn a_preset_stands_under_every_layer_wherever_it_is_chosen() {
    let loaded = loaded(
        Loader::new::<RootConfig>()
            .file("a.toml", "[engine]\ncylinders = 6\n")
            .environment([("TICKCAST_ENGINE_SPEED_LIMIT", "200")])
            .set("engine.preset=fast"),
    );
    let engine = &loaded.value.engine;
    assert_eq!((engine.cylinders, engine.speed_limit), (6, 200), "also where a layer sets the default");
    assert_eq!(engine.fuels, ["alcohol", "petrol"]);
    let origin = |key: &str| loaded.origins.of(key).to_string();
    assert_eq!(origin("engine.fuels"), "preset fast");
    assert_eq!(origin("engine.cylinders"), "a.toml:2");
    assert_eq!(origin("engine.speed_limit"), "TICKCAST_ENGINE_SPEED_LIMIT");
    let shown = loaded.show();
    let again = Loader::new::<RootConfig>().file("shown.toml", shown.clone()).load().expect(&shown);
    assert_eq!(again.value, loaded.value);
    assert!(loaded.json().contains("\"layer\": \"preset\", \"name\": \"fast\""));
}

#[test]
fn without_a_preset_or_with_one_that_sets_nothing_the_defaults_count() {
    let plain = loaded(Loader::new::<RootConfig>().set("engine.preset=plain")).value.engine;
    assert_eq!(plain, EngineConfig { preset: Some(Preset::Plain), ..EngineConfig::default() });
    assert_eq!(loaded(Loader::new::<RootConfig>()).value, RootConfig::default());
}

#[test]
fn a_preset_that_does_not_exist_is_refused() {
    let faults = Loader::new::<RootConfig>().set("engine.preset=fats").load().expect_err("no such preset");
    assert!(faults.to_string().contains("fast"), "{faults}");
}

#[test]
fn what_does_not_go_with_a_preset_is_told_with_its_name() {
    let loader = Loader::new::<RootConfig>().set("engine.preset=fast").set("engine.cylinders=16");
    let text = loader.load().expect_err("they do not go together").to_string();
    assert!(text.contains("preset fast: ") && text.contains("(--set)"), "{text}");
}

config::section! {
    /// A section whose preset a file could not overrule.
    struct BadConfig {
        /// What for.
        preset: Option<Preset> = None;
        /// A name, if it has one.
        name: Option<String> = None;
    }
    presets = BAD;
}

const BAD: &[PresetValues] = &[PresetValues { name: "fast", values: &[("name", "Bolt")] }];

#[test]
fn a_preset_of_an_optional_key_is_a_mistake_since_no_file_could_take_it_back() {
    assert_eq!(config::audit::<RootConfig>(), [""; 0]);
    let mistakes = config::audit::<BadConfig>();
    assert!(mistakes.len() == 1 && mistakes[0].contains("preset fast"), "{mistakes:?}");
}
