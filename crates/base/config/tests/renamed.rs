//! Keys that have another name now: the former one is refused with the present one, however it is given.

use config::{FaultKind, Faults, Loader, PresetValues};
use tickcast_config as config;

config::section! {
    /// Everything.
    struct RootConfig {
        /// A part.
        engine: EngineConfig;
        /// A part whose tank is no business of the file.
        closed: EngineConfig, without ["tank"];
    }
}

config::section! {
    /// The engine.
    struct EngineConfig {
        /// What for.
        preset: Option<Preset> = None;
        /// Its top speed.
        top_speed: u32 = 200;
        /// The tank.
        tank: TankConfig;
    }
    presets = PRESETS;
    renamed = RENAMED;
}

config::choice! {
    /// What the engine is for.
    enum Preset {
        /// Far.
        Far = "far",
    }
}

const PRESETS: &[PresetValues] =
    &[PresetValues { name: Preset::Far.name(), values: &[("tank.litres", "90"), ("top_speed", "120")] }];

const RENAMED: &[(&str, &str)] =
    &[("speed_limit", "top_speed"), ("tank_litres", "tank.litres"), ("fuel", "tank.fuel")];

config::section! {
    /// A tank.
    struct TankConfig {
        /// How much it holds.
        litres: u32 = 50, range 1..=100;
        /// What it holds.
        fuel: String = "petrol";
    }
}

fn refused(loader: Loader<RootConfig>) -> Faults {
    loader.load().expect_err("a former name")
}

#[test]
fn the_declaration_is_sound() {
    assert_eq!(config::audit::<RootConfig>(), [""; 0]);
}

#[test]
fn a_former_name_is_refused_with_the_present_one_in_a_file() {
    let faults = refused(Loader::new::<RootConfig>().file("t.toml", "[engine]\ntank_litres = 7\n"));
    assert_eq!(faults.as_slice()[0].kind(), FaultKind::Renamed);
    let expected = "\
t.toml:2:1: `tank_litres` is now `tank.litres` in [engine]
  2 | tank_litres = 7
    | ^^^^^^^^^^^

1 error in the configuration";
    assert_eq!(faults.to_string(), expected);
}

#[test]
fn a_former_name_is_refused_with_the_present_one_in_a_flag_and_a_variable() {
    let flag = refused(Loader::new::<RootConfig>().set("engine.speed_limit=7"));
    assert!(flag.to_string().contains("`speed_limit` is now `top_speed` in [engine]"), "{flag}");
    let variable =
        refused(Loader::new::<RootConfig>().environment([("TICKCAST_ENGINE_SPEED_LIMIT", "7")])).to_string();
    let said = "`engine.speed_limit` is now `engine.top_speed`; its variable is TICKCAST_ENGINE_TOP_SPEED";
    assert!(variable.contains(said), "{variable}");
}

/// `tank_litres` and `tank.litres` have one variable, which goes on meaning the same.
#[test]
fn a_variable_that_a_new_name_does_not_change_is_taken() {
    let loader = Loader::new::<RootConfig>().environment([("TICKCAST_ENGINE_TANK_LITRES", "7")]);
    assert_eq!(loader.load().expect("legal").value.engine.tank.litres, 7);
}

#[test]
fn a_name_that_led_to_what_is_withheld_is_unknown() {
    let faults = refused(Loader::new::<RootConfig>().set("closed.fuel=coal"));
    assert_eq!(faults.as_slice()[0].kind(), FaultKind::UnknownKey);
}

#[test]
fn a_preset_sets_keys_of_sections_within_unless_something_else_does() {
    let load = |file: &str| Loader::new::<RootConfig>().file("t.toml", file).load().expect("legal");
    let loaded = load("[engine]\npreset = \"far\"\n");
    let engine = &loaded.value.engine;
    assert_eq!((engine.tank.litres, engine.top_speed, engine.tank.fuel.as_str()), (90, 120, "petrol"));
    assert_eq!(loaded.origins.of("engine.tank.litres").to_string(), "preset far");
    let loaded = load("[engine]\npreset = \"far\"\n[engine.tank]\nlitres = 40\n");
    assert_eq!((loaded.value.engine.tank.litres, loaded.value.engine.top_speed), (40, 120));
    // What is withheld no preset sets.
    let loaded = load("[closed]\npreset = \"far\"\n");
    assert_eq!((loaded.value.closed.tank.litres, loaded.value.closed.top_speed), (50, 120));
}

config::section! {
    /// Mistakes.
    struct WrongConfig {
        /// A key.
        width: u32 = 1;
        /// Another.
        height: u32 = 1;
    }
    renamed = &[("width", "height"), ("depth", "heigth"), ("size", "width"), ("size", "height")];
}

#[test]
fn an_audit_finds_names_that_lead_nowhere_are_declared_or_stand_twice() {
    let expected = [
        "width: a former name, and declared",
        "depth: renamed to heigth, which is no key",
        "size: renamed twice",
        "size: renamed twice",
    ];
    assert_eq!(config::audit::<WrongConfig>(), expected);
}

#[test]
fn a_former_name_in_the_new_section_or_misspelt_is_refused_with_the_present_one() {
    let said = |text: &str| refused(Loader::new::<RootConfig>().file("a.toml", text)).to_string();
    let moved = said("[engine.tank]\ntank_litres = 60\n");
    assert!(moved.contains("`tank_litres` is now `tank.litres` in [engine]"), "{moved}");
    let misspelt = said("[engine]\ntank_liters = 60\n");
    assert!(misspelt.contains("did you mean `tank_litres`, which is now `tank.litres`?"), "{misspelt}");
}
