# SPDX-License-Identifier: Apache-2.0
"""The wheel contains a library for one architecture, and no module that depends on a version of
Python: its tag is py3-none-linux_ARCH."""

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools below 70
    from wheel.bdist_wheel import bdist_wheel


class Binary(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(distclass=Binary, cmdclass={"bdist_wheel": Wheel})
