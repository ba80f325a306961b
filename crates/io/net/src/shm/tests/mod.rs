mod ring;
mod session;
mod users;
