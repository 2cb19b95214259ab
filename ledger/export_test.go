package ledger

// StateVersion is that of the State's stored form.
const StateVersion = stateVersion
