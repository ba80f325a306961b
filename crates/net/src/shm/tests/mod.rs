mod ring;
mod session;
