//! What the domains mean: login, directory, dictionary and item requests as typed values to and from RWF.
