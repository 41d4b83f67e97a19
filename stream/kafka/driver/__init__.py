"""Our aiokafka clients: subclasses with the changes that the tables of `patches.py` name.

Importing a module of this package verifies the installed aiokafka first, and raises SettingError if it does not fit.
"""

from spotsieve.stream.kafka.driver.patches import require_workarounds

require_workarounds()
