//! The runtime against a lab in this process, in virtual time where nothing needs a socket.

#[cfg(test)]
mod cache;
#[cfg(test)]
mod client;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod events;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod support;
#[cfg(test)]
mod traces;
