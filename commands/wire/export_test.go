package wire

// ElementBytes is for tests.
const ElementBytes = elementBytes
